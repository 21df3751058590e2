CREATE PROCEDURE sp_table_privileges @table_name nvarchar(384), @table_owner nvarchar(384) = NULL,
  @table_qualifier sysname = NULL, @fUsePattern bit = 1
AS
SET NOCOUNT ON
IF @table_qualifier IS NOT NULL AND @table_qualifier <> DB_NAME()
BEGIN
  RAISERROR(15250, -1, -1)
  RETURN
END
SELECT CAST(DB_NAME() AS sysname) AS TABLE_QUALIFIER, CAST(s.name AS sysname) AS TABLE_OWNER,
  CAST(o.name AS sysname) AS TABLE_NAME, CAST('dbo' AS sysname) AS GRANTOR,
  CAST('dbo' AS sysname) AS GRANTEE, CAST(p.privilege AS varchar(32)) AS PRIVILEGE,
  CAST('YES' AS varchar(3)) AS IS_GRANTABLE
FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
  CROSS JOIN (VALUES ('DELETE'), ('INSERT'), ('REFERENCES'), ('SELECT'), ('UPDATE'))
    AS p (privilege)
WHERE o.type IN ('U', 'V')
  AND (@fUsePattern = 1 AND o.name LIKE @table_name OR o.name = @table_name)
  AND (@table_owner IS NULL OR @fUsePattern = 1 AND s.name LIKE @table_owner
    OR s.name = @table_owner)
ORDER BY 1, 2, 3, 6
