SELECT name, object_id AS id, type AS xtype, TRY_CAST(schema_id AS smallint) AS uid,
  parent_object_id AS parent_obj, create_date AS crdate, type,
  CAST(0 AS int) AS status, create_date AS refdate
FROM sys.objects
