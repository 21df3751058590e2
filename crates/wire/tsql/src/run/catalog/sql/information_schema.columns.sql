SELECT DB_NAME() AS TABLE_CATALOG, s.name AS TABLE_SCHEMA, o.name AS TABLE_NAME,
  c.name AS COLUMN_NAME, c.column_id AS ORDINAL_POSITION,
  CAST(d.definition AS nvarchar(4000)) AS COLUMN_DEFAULT,
  CAST(CASE WHEN c.is_nullable = 1 THEN 'YES' ELSE 'NO' END AS varchar(3)) AS IS_NULLABLE,
  t.name AS DATA_TYPE,
  CAST(CASE WHEN t.name IN ('nvarchar', 'nchar') AND c.max_length > 0 THEN c.max_length / 2
    WHEN t.name IN ('char', 'varchar', 'binary', 'varbinary', 'nvarchar', 'nchar', 'xml')
      THEN c.max_length
    WHEN t.name IN ('text', 'image') THEN 2147483647
    WHEN t.name = 'ntext' THEN 1073741823 END AS int) AS CHARACTER_MAXIMUM_LENGTH,
  CAST(CASE
    WHEN t.name IN ('char', 'varchar', 'binary', 'varbinary', 'nvarchar', 'nchar', 'xml')
      THEN c.max_length
    WHEN t.name IN ('text', 'image') THEN 2147483647
    WHEN t.name = 'ntext' THEN 2147483646 END AS int) AS CHARACTER_OCTET_LENGTH,
  CAST(CASE WHEN t.name IN ('tinyint', 'smallint', 'int', 'bigint', 'real', 'float', 'decimal',
    'money', 'smallmoney') THEN c.precision END AS tinyint) AS NUMERIC_PRECISION,
  CAST(CASE WHEN t.name IN ('real', 'float') THEN 2
    WHEN t.name IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'money', 'smallmoney')
      THEN 10 END AS smallint) AS NUMERIC_PRECISION_RADIX,
  CAST(CASE WHEN t.name IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'money',
    'smallmoney') THEN c.scale END AS int) AS NUMERIC_SCALE,
  CAST(CASE WHEN t.name IN ('date', 'time', 'datetime', 'datetime2', 'smalldatetime',
    'datetimeoffset') THEN c.scale END AS smallint) AS DATETIME_PRECISION,
  CAST(NULL AS sysname) AS CHARACTER_SET_CATALOG, CAST(NULL AS sysname) AS CHARACTER_SET_SCHEMA,
  CAST(CASE WHEN t.name IN ('char', 'varchar', 'text') THEN 'iso_1'
    WHEN t.name IN ('nchar', 'nvarchar', 'ntext') THEN 'UNICODE' END AS sysname)
    AS CHARACTER_SET_NAME,
  CAST(NULL AS sysname) AS COLLATION_CATALOG, CAST(NULL AS sysname) AS COLLATION_SCHEMA,
  c.collation_name AS COLLATION_NAME,
  CAST(CASE WHEN y.name IS NOT NULL THEN DB_NAME() END AS sysname) AS DOMAIN_CATALOG,
  CAST(z.name AS sysname) AS DOMAIN_SCHEMA, CAST(y.name AS sysname) AS DOMAIN_NAME
FROM sys.columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id
  LEFT JOIN sys.schemas AS s ON s.schema_id = o.schema_id
  LEFT JOIN sys.types AS t ON t.user_type_id = c.system_type_id
  LEFT JOIN sys.types AS y ON y.user_type_id = c.user_type_id AND y.is_user_defined = 1
  LEFT JOIN sys.schemas AS z ON z.schema_id = y.schema_id
  LEFT JOIN sys.default_constraints AS d ON d.object_id = c.default_object_id
WHERE o.type IN ('U', 'V')
