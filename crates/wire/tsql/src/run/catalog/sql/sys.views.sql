SELECT o.*, CAST(0 AS bit) AS is_replicated, CAST(0 AS bit) AS has_opaque_metadata,
  CAST(0 AS bit) AS has_unchecked_assembly_data, CAST(0 AS bit) AS with_check_option
FROM sys.objects AS o WHERE o.type = 'V'
