CREATE PROCEDURE sp_statistics @table_name sysname, @table_owner sysname = NULL,
  @table_qualifier sysname = NULL, @index_name sysname = '%', @is_unique char(1) = 'N',
  @accuracy char(1) = 'Q'
AS
SET NOCOUNT ON
SELECT CAST(DB_NAME() AS sysname) AS TABLE_QUALIFIER, CAST(s.name AS sysname) AS TABLE_OWNER,
  CAST(o.name AS sysname) AS TABLE_NAME, CAST(NULL AS smallint) AS NON_UNIQUE,
  CAST(NULL AS sysname) AS INDEX_QUALIFIER, CAST(NULL AS sysname) AS INDEX_NAME,
  CAST(0 AS smallint) AS TYPE, CAST(NULL AS smallint) AS SEQ_IN_INDEX,
  CAST(NULL AS sysname) AS COLUMN_NAME, CAST(NULL AS char(1)) AS COLLATION,
  CAST(NULL AS int) AS CARDINALITY, CAST(NULL AS int) AS PAGES,
  CAST(NULL AS varchar(128)) AS FILTER_CONDITION
FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.type = 'U' AND o.name = @table_name
  AND (@table_owner IS NULL OR @table_owner = '' OR s.name = @table_owner)
  AND ISNULL(NULLIF(@table_qualifier, ''), DB_NAME()) = DB_NAME()
UNION ALL
SELECT CAST(DB_NAME() AS sysname), CAST(s.name AS sysname), CAST(o.name AS sysname),
  CAST(CASE WHEN i.is_unique = 1 THEN 0 ELSE 1 END AS smallint), CAST(o.name AS sysname),
  CAST(i.name AS sysname), CAST(CASE i.type WHEN 1 THEN 1 ELSE 3 END AS smallint),
  CAST(ic.key_ordinal AS smallint), CAST(c.name AS sysname),
  CAST(CASE WHEN ic.is_descending_key = 1 THEN 'D' ELSE 'A' END AS char(1)),
  CAST(NULL AS int), CAST(NULL AS int), CAST(NULL AS varchar(128))
FROM sys.indexes AS i
  JOIN sys.index_columns AS ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id
    AND ic.is_included_column = 0
  JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
  JOIN sys.objects AS o ON o.object_id = i.object_id
  JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE i.index_id > 0 AND o.name = @table_name
  AND (@table_owner IS NULL OR @table_owner = '' OR s.name = @table_owner)
  AND ISNULL(NULLIF(@table_qualifier, ''), DB_NAME()) = DB_NAME()
  AND (@index_name IS NULL OR i.name LIKE @index_name)
  AND (i.is_unique = 1 OR @is_unique <> 'Y')
ORDER BY 4, 7, 6, 8
