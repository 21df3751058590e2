SELECT * FROM sys.objects UNION ALL SELECT * FROM sys.system_objects
