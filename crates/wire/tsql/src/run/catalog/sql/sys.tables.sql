SELECT o.*, CAST(1 AS int) AS lob_data_space_id, CAST(NULL AS int) AS filestream_data_space_id,
  (SELECT MAX(c.column_id) FROM sys.columns AS c WHERE c.object_id = o.object_id)
    AS max_column_id_used,
  CAST(0 AS bit) AS is_replicated, CAST(0 AS bit) AS has_replication_filter,
  CAST(0 AS bit) AS is_tracked_by_cdc, CAST(0 AS tinyint) AS lock_escalation,
  CAST('TABLE' AS nvarchar(60)) AS lock_escalation_desc, CAST(0 AS bit) AS is_filetable,
  CAST(0 AS bit) AS is_memory_optimized, CAST(0 AS tinyint) AS durability,
  CAST('SCHEMA_AND_DATA' AS nvarchar(60)) AS durability_desc,
  CAST(0 AS tinyint) AS temporal_type,
  CAST('NON_TEMPORAL_TABLE' AS nvarchar(60)) AS temporal_type_desc,
  CAST(NULL AS int) AS history_table_id, CAST(0 AS bit) AS is_external,
  CAST(0 AS bit) AS is_node, CAST(0 AS bit) AS is_edge
FROM sys.objects AS o WHERE o.type = 'U'
