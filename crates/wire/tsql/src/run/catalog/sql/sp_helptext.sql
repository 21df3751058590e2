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
SELECT CAST(m.definition AS nvarchar(max)) AS [Text] FROM sys.sql_modules AS m
WHERE m.object_id = OBJECT_ID(@objname)
