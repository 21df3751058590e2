SELECT DB_NAME() AS SEQUENCE_CATALOG, s.name AS SEQUENCE_SCHEMA, q.name AS SEQUENCE_NAME,
  CAST(TYPE_NAME(q.system_type_id) AS sysname) AS DATA_TYPE, q.precision AS NUMERIC_PRECISION,
  CAST(10 AS smallint) AS NUMERIC_PRECISION_RADIX, CAST(q.scale AS int) AS NUMERIC_SCALE,
  q.start_value AS START_VALUE, q.minimum_value AS MINIMUM_VALUE,
  q.maximum_value AS MAXIMUM_VALUE, q.increment AS INCREMENT,
  CAST(q.is_cycling AS int) AS CYCLE_OPTION, CAST(NULL AS sysname) AS DECLARED_DATA_TYPE,
  CAST(NULL AS tinyint) AS DECLARED_NUMERIC_PRECISION, CAST(NULL AS int) AS DECLARED_NUMERIC_SCALE
FROM sys.sequences AS q JOIN sys.schemas AS s ON s.schema_id = q.schema_id
