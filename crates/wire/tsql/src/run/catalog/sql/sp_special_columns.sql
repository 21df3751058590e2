CREATE PROCEDURE sp_special_columns @table_name sysname, @table_owner sysname = NULL,
  @table_qualifier sysname = NULL, @col_type char(1) = 'R', @scope char(1) = 'T',
  @nullable char(1) = 'U', @ODBCVer int = 2
AS
SET NOCOUNT ON
-- 'V' is the column that changes with every update of its row: rowversion, which has no scope
DECLARE @id int, @index int
SELECT @id = o.object_id FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.type = 'U' AND o.name = @table_name AND s.name = ISNULL(NULLIF(@table_owner, ''), 'dbo')
  AND ISNULL(NULLIF(@table_qualifier, ''), DB_NAME()) = DB_NAME()
SELECT @index = MIN(i.index_id) FROM sys.indexes AS i
WHERE i.object_id = @id AND i.is_unique = 1 AND @col_type = 'R' AND NOT EXISTS (
  SELECT 1 FROM sys.index_columns AS ic JOIN sys.columns AS c
    ON c.object_id = ic.object_id AND c.column_id = ic.column_id
  WHERE ic.object_id = i.object_id AND ic.index_id = i.index_id
    AND c.is_nullable = 1 AND @nullable = 'O')
SELECT x.SCOPE, CAST(c.name AS sysname) AS COLUMN_NAME,
  CASE WHEN @ODBCVer = 3 THEN c.data_type ELSE c.data_type2 END AS DATA_TYPE,
  CAST(c.type_name AS sysname) AS TYPE_NAME, c.precision AS [PRECISION], c.length AS LENGTH,
  c.scale AS SCALE, CAST(1 AS smallint) AS PSEUDO_COLUMN
FROM (SELECT ic.object_id, ic.column_id, ic.key_ordinal,
    CAST(CASE @scope WHEN 'C' THEN 0 ELSE 1 END AS smallint) AS SCOPE
  FROM sys.index_columns AS ic WHERE ic.object_id = @id AND ic.index_id = @index
  UNION ALL
  SELECT r.object_id, r.column_id, 1, CAST(NULL AS smallint) FROM sys.columns AS r
  WHERE r.object_id = @id AND r.system_type_id = 189 AND @col_type = 'V') AS x
  JOIN sys.spt_columns AS c ON c.object_id = x.object_id AND c.ordinal = x.column_id
ORDER BY x.key_ordinal
