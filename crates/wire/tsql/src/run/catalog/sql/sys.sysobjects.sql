SELECT name, object_id AS id, type AS xtype, TRY_CAST(schema_id AS smallint) AS uid,
  parent_object_id AS parent_obj, create_date AS crdate,
  CAST(CASE WHEN type IN ('PK', 'UQ') THEN 'K' ELSE type END AS char(2)) AS type,
  CAST(0 AS int) AS status, create_date AS refdate
FROM sys.objects
