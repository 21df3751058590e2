SELECT name, object_id AS id, system_type_id AS xtype, CAST(user_type_id AS smallint) AS xusertype,
  max_length AS length, precision AS xprec, scale AS xscale, CAST(column_id AS smallint) AS colid,
  CAST(is_identity AS smallint) AS colstat, default_object_id AS cdefault,
  CAST(0 AS int) AS domain, CAST(0 AS smallint) AS number,
  CAST(column_id AS smallint) AS colorder, CAST(0 AS int) AS iscomputed,
  CAST(0 AS int) AS isoutparam, CAST(is_nullable AS int) AS isnullable,
  collation_name AS collation
FROM sys.columns
UNION ALL SELECT name, object_id, system_type_id, CAST(user_type_id AS smallint), max_length,
  precision, scale, CAST(parameter_id AS smallint), CAST(0 AS smallint), CAST(0 AS int),
  CAST(0 AS int), CAST(1 AS smallint), CAST(parameter_id AS smallint), CAST(0 AS int),
  CAST(is_output AS int), CAST(is_nullable AS int), CAST(NULL AS sysname)
FROM sys.parameters
