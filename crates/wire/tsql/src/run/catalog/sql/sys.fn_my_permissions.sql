CREATE FUNCTION sys.fn_my_permissions (@securable nvarchar(776), @class nvarchar(60))
RETURNS TABLE AS RETURN
SELECT CAST(CASE p.class_desc WHEN 'SERVER' THEN N'server' WHEN 'DATABASE' THEN N'database'
    ELSE @securable END AS nvarchar(128)) AS entity_name,
  CAST(N'' AS nvarchar(128)) AS subentity_name, p.permission_name
FROM sys.[~permissions] AS p
WHERE p.class_desc = @class
  AND HAS_PERMS_BY_NAME(@securable, @class, p.permission_name) = 1
