SELECT object_id, name, index_id AS stats_id, CAST(0 AS bit) AS auto_created,
  CAST(0 AS bit) AS user_created, CAST(0 AS bit) AS no_recompute, has_filter, filter_definition,
  CAST(0 AS bit) AS is_temporary, CAST(0 AS bit) AS is_incremental,
  CAST(0 AS bit) AS has_persisted_sample, CAST(0 AS int) AS stats_generation_method,
  CAST('Sort based statistics' AS varchar(80)) AS stats_generation_method_desc
FROM sys.indexes WHERE index_id > 0
