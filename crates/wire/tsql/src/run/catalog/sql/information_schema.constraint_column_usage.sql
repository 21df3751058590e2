SELECT u.TABLE_CATALOG, u.TABLE_SCHEMA, u.TABLE_NAME, u.COLUMN_NAME, u.CONSTRAINT_CATALOG,
  u.CONSTRAINT_SCHEMA, u.CONSTRAINT_NAME
FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS u
UNION ALL
SELECT DB_NAME(), s.name, t.name, c.name, DB_NAME(), s.name, k.name
FROM sys.check_constraints AS k
  JOIN sys.columns AS c ON c.object_id = k.parent_object_id AND c.column_id = k.parent_column_id
  JOIN sys.objects AS t ON t.object_id = k.parent_object_id
  LEFT JOIN sys.schemas AS s ON s.schema_id = t.schema_id
