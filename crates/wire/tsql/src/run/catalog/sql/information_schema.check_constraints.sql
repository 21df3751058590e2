SELECT DB_NAME() AS CONSTRAINT_CATALOG, s.name AS CONSTRAINT_SCHEMA, k.name AS CONSTRAINT_NAME,
  CAST(k.definition AS nvarchar(4000)) AS CHECK_CLAUSE
FROM sys.check_constraints AS k LEFT JOIN sys.schemas AS s ON s.schema_id = k.schema_id
