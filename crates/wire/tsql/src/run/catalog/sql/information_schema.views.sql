SELECT DB_NAME() AS TABLE_CATALOG, s.name AS TABLE_SCHEMA, o.name AS TABLE_NAME,
  CAST(m.definition AS nvarchar(4000)) AS VIEW_DEFINITION,
  CAST('NONE' AS varchar(7)) AS CHECK_OPTION, CAST('NO' AS varchar(2)) AS IS_UPDATABLE
FROM sys.objects AS o LEFT JOIN sys.schemas AS s ON s.schema_id = o.schema_id
  LEFT JOIN sys.sql_modules AS m ON m.object_id = o.object_id
WHERE o.type = 'V'
