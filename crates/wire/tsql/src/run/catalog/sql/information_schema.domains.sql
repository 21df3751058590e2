SELECT DB_NAME() AS DOMAIN_CATALOG, s.name AS DOMAIN_SCHEMA, t.name AS DOMAIN_NAME,
  CAST(CASE WHEN t.is_table_type = 1 THEN N'table type' ELSE b.name END AS nvarchar(128))
    AS DATA_TYPE,
  CAST(CASE WHEN b.name IN ('nvarchar', 'nchar') AND t.max_length > 0 THEN t.max_length / 2
    WHEN b.name IN ('char', 'varchar', 'binary', 'varbinary', 'nvarchar', 'nchar')
      THEN t.max_length END AS int) AS CHARACTER_MAXIMUM_LENGTH,
  CAST(CASE WHEN b.name IN ('char', 'varchar', 'binary', 'varbinary', 'nvarchar', 'nchar')
    THEN t.max_length END AS int) AS CHARACTER_OCTET_LENGTH,
  CAST(NULL AS nvarchar(128)) AS COLLATION_CATALOG, CAST(NULL AS nvarchar(128)) AS COLLATION_SCHEMA,
  t.collation_name AS COLLATION_NAME, CAST(NULL AS nvarchar(128)) AS CHARACTER_SET_CATALOG,
  CAST(NULL AS nvarchar(128)) AS CHARACTER_SET_SCHEMA,
  CAST(CASE WHEN b.name IN ('nvarchar', 'nchar') THEN N'UNICODE'
    WHEN b.name IN ('char', 'varchar') THEN N'iso_1' END AS nvarchar(128)) AS CHARACTER_SET_NAME,
  CAST(CASE WHEN b.name IN ('tinyint', 'smallint', 'int', 'bigint', 'real', 'float', 'decimal',
    'money', 'smallmoney') THEN t.precision END AS tinyint) AS NUMERIC_PRECISION,
  CAST(CASE WHEN b.name IN ('real', 'float') THEN 2
    WHEN b.name IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'money', 'smallmoney')
      THEN 10 END AS smallint) AS NUMERIC_PRECISION_RADIX,
  CAST(CASE WHEN b.name IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'money',
    'smallmoney') THEN t.scale END AS int) AS NUMERIC_SCALE,
  CAST(CASE WHEN b.name IN ('date', 'time', 'datetime', 'datetime2', 'smalldatetime',
    'datetimeoffset') THEN t.scale END AS smallint) AS DATETIME_PRECISION,
  CAST(NULL AS nvarchar(4000)) AS DOMAIN_DEFAULT
FROM sys.types AS t LEFT JOIN sys.types AS b ON b.user_type_id = t.system_type_id
  LEFT JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE t.is_user_defined = 1
