CREATE PROCEDURE sp_column_privileges @table_name sysname, @table_owner sysname = NULL,
  @table_qualifier sysname = NULL, @column_name nvarchar(384) = NULL
AS
SET NOCOUNT ON
IF @table_qualifier IS NOT NULL AND @table_qualifier <> DB_NAME()
BEGIN
  RAISERROR(15250, -1, -1)
  RETURN
END
SELECT CAST(DB_NAME() AS sysname) AS TABLE_QUALIFIER, CAST(s.name AS sysname) AS TABLE_OWNER,
  CAST(o.name AS sysname) AS TABLE_NAME, CAST(c.name AS sysname) AS COLUMN_NAME,
  CAST('dbo' AS sysname) AS GRANTOR, CAST('dbo' AS sysname) AS GRANTEE,
  CAST(p.privilege AS varchar(32)) AS PRIVILEGE, CAST('YES' AS varchar(3)) AS IS_GRANTABLE
FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
  JOIN sys.columns AS c ON c.object_id = o.object_id
  CROSS JOIN (VALUES ('INSERT'), ('REFERENCES'), ('SELECT'), ('UPDATE')) AS p (privilege)
WHERE o.type IN ('U', 'V') AND o.name = @table_name AND s.name = ISNULL(@table_owner, 'dbo')
  AND (@column_name IS NULL OR c.name LIKE @column_name)
ORDER BY 1, 2, 3, 4, 7
