CREATE PROCEDURE sp_helprole @rolename sysname = NULL
AS
SET NOCOUNT ON
IF @rolename IS NOT NULL
  AND NOT EXISTS (SELECT * FROM sys.database_principals WHERE name = @rolename AND type = 'R')
BEGIN
  RAISERROR('''%s'' is not a role.', 16, 1, @rolename)
  RETURN 1
END
SELECT name AS RoleName, CAST(principal_id AS int) AS RoleId, CAST(0 AS int) AS IsAppRole
FROM sys.database_principals WHERE type = 'R' AND (@rolename IS NULL OR name = @rolename)
ORDER BY principal_id
