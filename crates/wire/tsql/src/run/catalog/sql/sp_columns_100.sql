CREATE PROCEDURE sp_columns_100 @table_name nvarchar(384), @table_owner nvarchar(384) = NULL,
  @table_qualifier sysname = NULL, @column_name nvarchar(384) = NULL, @NameScope int = 0, @ODBCVer int = 2, @fUsePattern bit = 1
AS
SET NOCOUNT ON
IF @table_qualifier <> '' AND @table_qualifier <> DB_NAME()
BEGIN
  RAISERROR(15250, 16, 1)
  RETURN
END
SELECT CAST(DB_NAME() AS sysname) AS TABLE_QUALIFIER, CAST(s.name AS sysname) AS TABLE_OWNER,
  CAST(o.name AS sysname) AS TABLE_NAME, CAST(c.name AS sysname) AS COLUMN_NAME,
  CASE WHEN @ODBCVer = 3 THEN c.data_type ELSE c.data_type2 END AS DATA_TYPE,
  CAST(c.type_name AS sysname) AS TYPE_NAME, c.precision AS [PRECISION], c.length AS LENGTH,
  c.scale AS SCALE, c.radix AS RADIX, c.nullable AS NULLABLE,
  CAST(NULL AS varchar(254)) AS REMARKS, c.definition AS COLUMN_DEF,
  c.sql_data_type AS SQL_DATA_TYPE, c.sql_datetime_sub AS SQL_DATETIME_SUB,
  c.char_octet_length AS CHAR_OCTET_LENGTH, c.ordinal AS ORDINAL_POSITION,
  c.is_nullable AS IS_NULLABLE,
  CAST(0 AS smallint) AS SS_IS_SPARSE, CAST(0 AS smallint) AS SS_IS_COLUMN_SET,
  CAST(0 AS smallint) AS SS_IS_COMPUTED, c.is_identity AS SS_IS_IDENTITY,
  CAST(NULL AS sysname) AS SS_UDT_CATALOG_NAME, CAST(NULL AS sysname) AS SS_UDT_SCHEMA_NAME,
  CAST(NULL AS sysname) AS SS_UDT_ASSEMBLY_TYPE_NAME,
  CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_CATALOG_NAME,
  CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_SCHEMA_NAME,
  CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_NAME, c.ss_data_type AS SS_DATA_TYPE
FROM sys.spt_columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id
  JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE (@table_name IS NULL OR @fUsePattern = 1 AND o.name LIKE @table_name
    OR @fUsePattern = 0 AND o.name = @table_name)
  AND (@table_owner IS NULL OR @fUsePattern = 1 AND s.name LIKE @table_owner
    OR @fUsePattern = 0 AND s.name = @table_owner)
  AND (@column_name IS NULL OR @fUsePattern = 1 AND c.name LIKE @column_name
    OR @fUsePattern = 0 AND c.name = @column_name)
ORDER BY 1, 2, 3, 17
