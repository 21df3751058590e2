CREATE PROCEDURE sp_tables @table_name nvarchar(384) = NULL, @table_owner nvarchar(384) = NULL,
  @table_qualifier sysname = NULL, @table_type varchar(100) = NULL, @fUsePattern bit = 1
AS
SET NOCOUNT ON
IF @table_qualifier = '%' AND @table_owner = '' AND @table_name = ''
  SELECT CAST(name AS sysname) AS TABLE_QUALIFIER, CAST(NULL AS sysname) AS TABLE_OWNER,
    CAST(NULL AS sysname) AS TABLE_NAME, CAST(NULL AS varchar(32)) AS TABLE_TYPE,
    CAST(NULL AS varchar(254)) AS REMARKS
  FROM sys.databases ORDER BY 1
ELSE IF @table_owner = '%' AND @table_qualifier = '' AND @table_name = ''
  SELECT CAST(NULL AS sysname) AS TABLE_QUALIFIER, CAST(name AS sysname) AS TABLE_OWNER,
    CAST(NULL AS sysname) AS TABLE_NAME, CAST(NULL AS varchar(32)) AS TABLE_TYPE,
    CAST(NULL AS varchar(254)) AS REMARKS
  FROM sys.schemas ORDER BY 2
ELSE IF @table_type = '%' AND @table_qualifier = '' AND @table_owner = '' AND @table_name = ''
  SELECT CAST(NULL AS sysname) AS TABLE_QUALIFIER, CAST(NULL AS sysname) AS TABLE_OWNER,
    CAST(NULL AS sysname) AS TABLE_NAME, CAST(t.x AS varchar(32)) AS TABLE_TYPE,
    CAST(NULL AS varchar(254)) AS REMARKS
  FROM (VALUES ('SYSTEM TABLE'), ('TABLE'), ('VIEW')) AS t (x) ORDER BY 4
ELSE
BEGIN
  IF @table_qualifier <> '' AND @table_qualifier <> DB_NAME()
  BEGIN
    RAISERROR(15250, 16, 1)
    RETURN
  END
  SELECT CAST(DB_NAME() AS sysname) AS TABLE_QUALIFIER, CAST(s.name AS sysname) AS TABLE_OWNER,
    CAST(o.name AS sysname) AS TABLE_NAME,
    CAST(CASE o.type WHEN 'U' THEN 'TABLE' ELSE 'VIEW' END AS varchar(32)) AS TABLE_TYPE,
    CAST(NULL AS varchar(254)) AS REMARKS
  FROM sys.all_objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
  WHERE o.type IN ('U', 'V')
    AND (@table_name IS NULL OR @fUsePattern = 1 AND o.name LIKE @table_name
      OR @fUsePattern = 0 AND o.name = @table_name)
    AND (@table_owner IS NULL OR @fUsePattern = 1 AND s.name LIKE @table_owner
      OR @fUsePattern = 0 AND s.name = @table_owner)
    AND (@table_type IS NULL OR @table_type = '' OR @table_type = '%'
      OR CHARINDEX(CASE o.type WHEN 'U' THEN '''TABLE''' ELSE '''VIEW''' END, @table_type) > 0)
  ORDER BY 4, 1, 2, 3
END
