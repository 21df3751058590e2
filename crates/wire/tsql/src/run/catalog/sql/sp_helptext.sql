CREATE PROCEDURE sp_helptext @objname nvarchar(776), @columnname sysname = NULL
AS
SET NOCOUNT ON
IF OBJECT_ID(@objname) IS NULL
BEGIN
  DECLARE @db sysname = DB_NAME()
  RAISERROR('The object ''%s'' does not exist in database ''%s'' or is invalid for this operation.',
    16, 1, @objname, @db)
  RETURN 1
END
IF @columnname IS NOT NULL
BEGIN
  DECLARE @id int = OBJECT_ID(@objname)
  IF NOT EXISTS (SELECT 1 FROM sys.tables AS t WHERE t.object_id = @id)
  BEGIN
    RAISERROR(15218, -1, -1, @objname)
    RETURN 1
  END
  IF NOT EXISTS (SELECT 1 FROM sys.columns AS c WHERE c.object_id = @id AND c.name = @columnname)
  BEGIN
    RAISERROR(15645, -1, -1, @columnname)
    RETURN 1
  END
  IF NOT EXISTS (SELECT 1 FROM sys.computed_columns AS c
    WHERE c.object_id = @id AND c.name = @columnname)
  BEGIN
    RAISERROR(15646, -1, -1, @columnname)
    RETURN 1
  END
  SELECT CAST(c.definition AS nvarchar(max)) AS [Text] FROM sys.computed_columns AS c
  WHERE c.object_id = @id AND c.name = @columnname
  RETURN 0
END
SELECT CAST(m.definition AS nvarchar(max)) AS [Text] FROM sys.sql_modules AS m
WHERE m.object_id = OBJECT_ID(@objname)
