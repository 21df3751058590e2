SELECT file_id, CAST(NULL AS uniqueidentifier) AS file_guid, type, type_desc, data_space_id, name,
  physical_name, state, state_desc, size, max_size, CAST(NULL AS int) AS growth,
  CAST(0 AS bit) AS is_media_read_only, CAST(0 AS bit) AS is_read_only,
  CAST(0 AS bit) AS is_sparse, CAST(0 AS bit) AS is_percent_growth,
  CAST(0 AS bit) AS is_name_reserved
FROM sys.master_files WHERE database_id = DB_ID(DB_NAME())
