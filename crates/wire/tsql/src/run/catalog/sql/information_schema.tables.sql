SELECT DB_NAME() AS TABLE_CATALOG, s.name AS TABLE_SCHEMA, o.name AS TABLE_NAME,
  CAST(CASE o.type WHEN 'U' THEN 'BASE TABLE' ELSE 'VIEW' END AS varchar(10)) AS TABLE_TYPE
FROM sys.objects AS o LEFT JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.type IN ('U', 'V')
