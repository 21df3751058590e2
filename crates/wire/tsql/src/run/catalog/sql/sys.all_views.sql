SELECT * FROM sys.objects WHERE type = 'V' UNION ALL SELECT * FROM sys.system_views
