SELECT DB_NAME() AS CONSTRAINT_CATALOG, s.name AS CONSTRAINT_SCHEMA, k.name AS CONSTRAINT_NAME,
  DB_NAME() AS TABLE_CATALOG, s.name AS TABLE_SCHEMA, t.name AS TABLE_NAME,
  c.name AS COLUMN_NAME, CAST(i.key_ordinal AS int) AS ORDINAL_POSITION
FROM sys.key_constraints AS k
  JOIN sys.index_columns AS i
    ON i.object_id = k.parent_object_id AND i.index_id = k.unique_index_id
  JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = i.column_id
  JOIN sys.objects AS t ON t.object_id = k.parent_object_id
  LEFT JOIN sys.schemas AS s ON s.schema_id = t.schema_id
UNION ALL
SELECT DB_NAME(), s.name, f.name, DB_NAME(), s.name, t.name, c.name, p.constraint_column_id
FROM sys.foreign_keys AS f
  JOIN sys.foreign_key_columns AS p ON p.constraint_object_id = f.object_id
  JOIN sys.columns AS c ON c.object_id = p.parent_object_id AND c.column_id = p.parent_column_id
  JOIN sys.objects AS t ON t.object_id = f.parent_object_id
  LEFT JOIN sys.schemas AS s ON s.schema_id = t.schema_id
