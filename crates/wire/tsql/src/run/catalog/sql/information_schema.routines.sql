SELECT DB_NAME() AS SPECIFIC_CATALOG, s.name AS SPECIFIC_SCHEMA, o.name AS SPECIFIC_NAME,
  DB_NAME() AS ROUTINE_CATALOG, s.name AS ROUTINE_SCHEMA, o.name AS ROUTINE_NAME,
  CAST(CASE o.type WHEN 'P' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS nvarchar(20)) AS ROUTINE_TYPE,
  CAST(CASE WHEN o.type IN ('IF', 'TF') THEN 'TABLE' WHEN o.type = 'FN' THEN TYPE_NAME(p.user_type_id) END
    AS nvarchar(128)) AS DATA_TYPE, CAST('SQL' AS nvarchar(30)) AS ROUTINE_BODY,
  CAST(m.definition AS nvarchar(4000)) AS ROUTINE_DEFINITION, o.create_date AS CREATED,
  o.modify_date AS LAST_ALTERED
FROM sys.objects AS o LEFT JOIN sys.schemas AS s ON s.schema_id = o.schema_id
  LEFT JOIN sys.sql_modules AS m ON m.object_id = o.object_id
  LEFT JOIN sys.parameters AS p ON p.object_id = o.object_id AND p.parameter_id = 0
WHERE o.type IN ('P', 'IF', 'TF', 'FN')
