CREATE PROCEDURE sp_pkeys @table_name sysname, @table_owner sysname = NULL,
  @table_qualifier sysname = NULL
AS
SET NOCOUNT ON
SELECT CAST(DB_NAME() AS sysname) AS TABLE_QUALIFIER, CAST(s.name AS sysname) AS TABLE_OWNER,
  CAST(o.name AS sysname) AS TABLE_NAME, CAST(c.name AS sysname) AS COLUMN_NAME,
  CAST(ic.key_ordinal AS smallint) AS KEY_SEQ, CAST(i.name AS sysname) AS PK_NAME
FROM sys.indexes AS i
  JOIN sys.index_columns AS ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id
  JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
  JOIN sys.objects AS o ON o.object_id = i.object_id
  JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE i.is_primary_key = 1 AND o.name = @table_name
  AND (@table_owner IS NULL OR @table_owner = '' OR s.name = @table_owner)
  AND ISNULL(NULLIF(@table_qualifier, ''), DB_NAME()) = DB_NAME()
ORDER BY 1, 2, 3, 5
