CREATE PROCEDURE sp_helpuser @name_in_db sysname = NULL
AS
SET NOCOUNT ON
IF @name_in_db IS NOT NULL
  AND NOT EXISTS (SELECT * FROM sys.database_principals WHERE name = @name_in_db)
BEGIN
  RAISERROR('The name supplied (%s) is not a user, role, or aliased login.', 16, 1, @name_in_db)
  RETURN 1
END
SELECT u.name AS UserName, ISNULL(r.name, 'public') AS RoleName,
  SUSER_SNAME(u.sid) AS LoginName, CAST('master' AS sysname) AS DefDBName,
  u.default_schema_name AS DefSchemaName, CAST(u.principal_id AS char(10)) AS UserID, u.sid AS SID
FROM sys.database_principals AS u
  LEFT JOIN sys.database_role_members AS m ON m.member_principal_id = u.principal_id
  LEFT JOIN sys.database_principals AS r ON r.principal_id = m.role_principal_id
WHERE u.type = 'S' AND (@name_in_db IS NULL OR u.name = @name_in_db)
ORDER BY u.principal_id, r.name
