SELECT DB_NAME() AS CONSTRAINT_CATALOG, s.name AS CONSTRAINT_SCHEMA, f.name AS CONSTRAINT_NAME,
  DB_NAME() AS UNIQUE_CONSTRAINT_CATALOG, p.name AS UNIQUE_CONSTRAINT_SCHEMA,
  i.name AS UNIQUE_CONSTRAINT_NAME, CAST('SIMPLE' AS varchar(7)) AS MATCH_OPTION,
  CAST(REPLACE(f.update_referential_action_desc, '_', ' ') AS varchar(11)) AS UPDATE_RULE,
  CAST(REPLACE(f.delete_referential_action_desc, '_', ' ') AS varchar(11)) AS DELETE_RULE
FROM sys.foreign_keys AS f
  LEFT JOIN sys.indexes AS i
    ON i.object_id = f.referenced_object_id AND i.index_id = f.key_index_id
  LEFT JOIN sys.schemas AS s ON s.schema_id = f.schema_id
  LEFT JOIN sys.objects AS o ON o.object_id = f.referenced_object_id
  LEFT JOIN sys.schemas AS p ON p.schema_id = o.schema_id
