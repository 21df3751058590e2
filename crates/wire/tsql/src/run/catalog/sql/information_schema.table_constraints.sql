SELECT DB_NAME() AS CONSTRAINT_CATALOG, s.name AS CONSTRAINT_SCHEMA, o.name AS CONSTRAINT_NAME,
  DB_NAME() AS TABLE_CATALOG, s.name AS TABLE_SCHEMA, t.name AS TABLE_NAME,
  CAST(CASE o.type WHEN 'PK' THEN 'PRIMARY KEY' WHEN 'UQ' THEN 'UNIQUE' WHEN 'F'
    THEN 'FOREIGN KEY' ELSE 'CHECK' END AS varchar(11)) AS CONSTRAINT_TYPE,
  CAST('NO' AS varchar(2)) AS IS_DEFERRABLE, CAST('NO' AS varchar(2)) AS INITIALLY_DEFERRED
FROM sys.objects AS o JOIN sys.objects AS t ON t.object_id = o.parent_object_id
  LEFT JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE o.type IN ('PK', 'UQ', 'F', 'C')
