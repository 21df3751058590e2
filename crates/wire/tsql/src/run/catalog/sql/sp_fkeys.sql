CREATE PROCEDURE sp_fkeys @pktable_name sysname = NULL, @pktable_owner sysname = NULL,
  @pktable_qualifier sysname = NULL, @fktable_name sysname = NULL,
  @fktable_owner sysname = NULL, @fktable_qualifier sysname = NULL
AS
SET NOCOUNT ON
IF @pktable_name IS NULL AND @fktable_name IS NULL
BEGIN
  RAISERROR(15252, 16, 1)
  RETURN
END
SELECT CAST(DB_NAME() AS sysname) AS PKTABLE_QUALIFIER, CAST(ps.name AS sysname) AS PKTABLE_OWNER,
  CAST(p.name AS sysname) AS PKTABLE_NAME, CAST(pc.name AS sysname) AS PKCOLUMN_NAME,
  CAST(DB_NAME() AS sysname) AS FKTABLE_QUALIFIER, CAST(cs.name AS sysname) AS FKTABLE_OWNER,
  CAST(c.name AS sysname) AS FKTABLE_NAME, CAST(cc.name AS sysname) AS FKCOLUMN_NAME,
  CAST(k.constraint_column_id AS smallint) AS KEY_SEQ,
  CAST(CASE f.update_referential_action WHEN 1 THEN 0 WHEN 0 THEN 1
    ELSE f.update_referential_action END AS smallint) AS UPDATE_RULE,
  CAST(CASE f.delete_referential_action WHEN 1 THEN 0 WHEN 0 THEN 1
    ELSE f.delete_referential_action END AS smallint) AS DELETE_RULE,
  CAST(f.name AS sysname) AS FK_NAME, CAST(i.name AS sysname) AS PK_NAME,
  CAST(7 AS smallint) AS DEFERRABILITY
FROM sys.foreign_keys AS f
  JOIN sys.foreign_key_columns AS k ON k.constraint_object_id = f.object_id
  JOIN sys.objects AS c ON c.object_id = f.parent_object_id
  JOIN sys.schemas AS cs ON cs.schema_id = c.schema_id
  JOIN sys.columns AS cc
    ON cc.object_id = k.parent_object_id AND cc.column_id = k.parent_column_id
  JOIN sys.objects AS p ON p.object_id = f.referenced_object_id
  JOIN sys.schemas AS ps ON ps.schema_id = p.schema_id
  JOIN sys.columns AS pc
    ON pc.object_id = k.referenced_object_id AND pc.column_id = k.referenced_column_id
  LEFT JOIN sys.indexes AS i
    ON i.object_id = f.referenced_object_id AND i.index_id = f.key_index_id
WHERE (@pktable_name IS NULL OR p.name = @pktable_name)
  AND (@pktable_owner IS NULL OR @pktable_owner = '' OR ps.name = @pktable_owner)
  AND (@fktable_name IS NULL OR c.name = @fktable_name)
  AND (@fktable_owner IS NULL OR @fktable_owner = '' OR cs.name = @fktable_owner)
  AND ISNULL(NULLIF(@pktable_qualifier, ''), DB_NAME()) = DB_NAME()
  AND ISNULL(NULLIF(@fktable_qualifier, ''), DB_NAME()) = DB_NAME()
ORDER BY 5, 6, 7, 12, 9
