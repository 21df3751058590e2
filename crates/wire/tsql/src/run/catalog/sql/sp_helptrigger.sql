CREATE PROCEDURE sp_helptrigger @tabname nvarchar(776), @triggertype char(6) = NULL
AS
SET NOCOUNT ON
DECLARE @id int = OBJECT_ID(@tabname)
IF @id IS NULL
BEGIN
  RAISERROR('The object ''%s'' does not exist in the current database or is invalid for this operation.',
    16, 1, @tabname)
  RETURN 1
END
IF @triggertype IS NOT NULL AND @triggertype NOT IN ('DELETE', 'INSERT', 'UPDATE')
BEGIN
  RAISERROR('The specified value for @triggertype is invalid: it is DELETE, INSERT or UPDATE.', 16, 1)
  RETURN 1
END
SELECT t.name AS trigger_name, CAST('dbo' AS sysname) AS trigger_owner,
  t.isupdate, t.isdelete, t.isinsert,
  CASE WHEN t.is_instead_of_trigger = 1 THEN 0 ELSE 1 END AS isafter,
  CAST(t.is_instead_of_trigger AS int) AS isinsteadof,
  t.trigger_schema
FROM (SELECT g.name, g.is_instead_of_trigger, OBJECT_SCHEMA_NAME(@id) AS trigger_schema,
    MAX(CASE WHEN e.type = 2 THEN 1 ELSE 0 END) AS isupdate,
    MAX(CASE WHEN e.type = 3 THEN 1 ELSE 0 END) AS isdelete,
    MAX(CASE WHEN e.type = 1 THEN 1 ELSE 0 END) AS isinsert
  FROM sys.triggers AS g JOIN sys.trigger_events AS e ON e.object_id = g.object_id
  WHERE g.parent_id = @id
  GROUP BY g.name, g.is_instead_of_trigger) AS t
WHERE @triggertype IS NULL OR @triggertype = 'UPDATE' AND t.isupdate = 1
  OR @triggertype = 'DELETE' AND t.isdelete = 1 OR @triggertype = 'INSERT' AND t.isinsert = 1
ORDER BY t.name
