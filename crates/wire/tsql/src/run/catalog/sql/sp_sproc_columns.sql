CREATE PROCEDURE sp_sproc_columns @procedure_name nvarchar(390) = '%',
  @procedure_owner nvarchar(384) = NULL, @procedure_qualifier sysname = NULL,
  @column_name nvarchar(384) = NULL, @ODBCVer int = 2, @fUsePattern bit = 1
AS
SET NOCOUNT ON
IF @procedure_qualifier <> '' AND @procedure_qualifier <> DB_NAME()
BEGIN
  RAISERROR(15250, 16, 1)
  RETURN
END
SELECT CAST(DB_NAME() AS sysname) AS PROCEDURE_QUALIFIER,
  CAST(s.name AS sysname) AS PROCEDURE_OWNER,
  CAST(o.name + ';1' AS nvarchar(134)) AS PROCEDURE_NAME, CAST(p.name AS sysname) AS COLUMN_NAME,
  CAST(p.kind AS smallint) AS COLUMN_TYPE,
  CASE WHEN @ODBCVer = 3 THEN p.data_type ELSE p.data_type2 END AS DATA_TYPE,
  CAST(p.type_name AS sysname) AS TYPE_NAME, p.precision AS [PRECISION], p.length AS LENGTH,
  p.scale AS SCALE, p.radix AS RADIX, p.nullable AS NULLABLE,
  CAST(NULL AS varchar(254)) AS REMARKS, CAST(NULL AS nvarchar(4000)) AS COLUMN_DEF,
  p.sql_data_type AS SQL_DATA_TYPE, p.sql_datetime_sub AS SQL_DATETIME_SUB,
  p.char_octet_length AS CHAR_OCTET_LENGTH, p.ordinal AS ORDINAL_POSITION,
  p.is_nullable AS IS_NULLABLE, CAST(NULL AS sysname) AS SS_TYPE_CATALOG_NAME,
  CAST(NULL AS sysname) AS SS_TYPE_SCHEMA_NAME, CAST(NULL AS sysname) AS SS_UDT_CATALOG_NAME,
  CAST(NULL AS sysname) AS SS_UDT_SCHEMA_NAME,
  CAST(NULL AS sysname) AS SS_UDT_ASSEMBLY_TYPE_NAME,
  CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_CATALOG_NAME,
  CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_SCHEMA_NAME,
  CAST(NULL AS sysname) AS SS_XML_SCHEMACOLLECTION_NAME, p.ss_data_type AS SS_DATA_TYPE
FROM (
  SELECT x.object_id, CAST('@RETURN_VALUE' AS sysname) AS name, 5 AS kind, d.data_type,
    d.data_type2, CAST('int' AS sysname) AS type_name, 10 AS precision, 4 AS length,
    CAST(0 AS smallint) AS scale, CAST(10 AS smallint) AS radix, CAST(0 AS smallint) AS nullable,
    d.sql_data_type, d.sql_datetime_sub, CAST(NULL AS int) AS char_octet_length, 0 AS ordinal,
    CAST('NO' AS varchar(254)) AS is_nullable, CAST(56 AS tinyint) AS ss_data_type
  FROM sys.objects AS x CROSS JOIN sys.spt_datatype_info AS d
  WHERE x.type = 'P' AND d.type_name = 'int'
  UNION ALL
  SELECT y.object_id, CASE y.ordinal WHEN 0 THEN '@RETURN_VALUE' ELSE y.name END,
    CASE WHEN y.ordinal = 0 THEN 5 WHEN y.is_output = 1 THEN 2 ELSE 1 END, y.data_type,
    y.data_type2, y.type_name, y.precision, y.length, y.scale, y.radix, y.nullable,
    y.sql_data_type, y.sql_datetime_sub, y.char_octet_length, y.ordinal, y.is_nullable,
    y.ss_data_type
  FROM sys.spt_parameters AS y
) AS p JOIN sys.objects AS o ON o.object_id = p.object_id
  JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE (@procedure_name IS NULL OR @fUsePattern = 1 AND o.name LIKE @procedure_name
    OR @fUsePattern = 0 AND o.name = @procedure_name)
  AND (@procedure_owner IS NULL OR @fUsePattern = 1 AND s.name LIKE @procedure_owner
    OR @fUsePattern = 0 AND s.name = @procedure_owner)
  AND (@column_name IS NULL OR @fUsePattern = 1 AND p.name LIKE @column_name
    OR @fUsePattern = 0 AND p.name = @column_name)
ORDER BY 1, 2, 3, 18
