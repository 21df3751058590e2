SELECT DB_NAME() AS SPECIFIC_CATALOG, s.name AS SPECIFIC_SCHEMA, o.name AS SPECIFIC_NAME,
  p.parameter_id AS ORDINAL_POSITION,
  CAST(CASE WHEN p.parameter_id = 0 THEN 'OUT' WHEN p.is_output = 1 THEN 'INOUT' ELSE 'IN' END
    AS nvarchar(10)) AS PARAMETER_MODE,
  CAST(CASE p.parameter_id WHEN 0 THEN 'YES' ELSE 'NO' END AS nvarchar(10)) AS IS_RESULT, CAST('NO' AS nvarchar(10)) AS AS_LOCATOR,
  p.name AS PARAMETER_NAME,
  CAST(CASE p.is_readonly WHEN 1 THEN N'table type' ELSE t.name END AS nvarchar(128)) AS DATA_TYPE,
  CAST(CASE WHEN t.name IN ('nvarchar', 'nchar') AND p.max_length > 0 THEN p.max_length / 2
    WHEN t.name IN ('char', 'varchar', 'binary', 'varbinary', 'nvarchar', 'nchar')
      THEN p.max_length END AS int) AS CHARACTER_MAXIMUM_LENGTH,
  CAST(CASE WHEN t.name IN ('tinyint', 'smallint', 'int', 'bigint', 'real', 'float', 'decimal',
    'money', 'smallmoney') THEN p.precision END AS tinyint) AS NUMERIC_PRECISION,
  CAST(CASE WHEN t.name IN ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'money',
    'smallmoney') THEN p.scale END AS int) AS NUMERIC_SCALE
FROM sys.parameters AS p JOIN sys.objects AS o ON o.object_id = p.object_id
  LEFT JOIN sys.schemas AS s ON s.schema_id = o.schema_id
  LEFT JOIN sys.types AS t ON t.user_type_id = p.system_type_id
