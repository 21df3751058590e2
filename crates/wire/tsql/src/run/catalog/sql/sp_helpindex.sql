CREATE PROCEDURE sp_helpindex @objname nvarchar(776)
AS
SET NOCOUNT ON
DECLARE @id int = OBJECT_ID(@objname)
IF @id IS NULL
BEGIN
  RAISERROR('The object ''%s'' does not exist in the current database or is invalid for this operation.',
    16, 1, @objname)
  RETURN 1
END
IF NOT EXISTS (SELECT * FROM sys.indexes WHERE object_id = @id AND index_id > 0)
BEGIN
  RAISERROR('The object ''%s'' does not have any indexes, or you do not have permissions.', 0, 1,
    @objname)
  RETURN 0
END
SELECT CAST(i.name AS sysname) AS index_name,
  CAST(CASE WHEN i.index_id = 1 THEN 'clustered' ELSE 'nonclustered' END +
    CASE WHEN i.is_unique = 1 THEN ', unique' ELSE '' END +
    CASE WHEN i.is_primary_key = 1 THEN ', primary key' ELSE '' END +
    CASE WHEN i.is_unique_constraint = 1 THEN ', unique key' ELSE '' END +
    ' located on PRIMARY' AS varchar(210)) AS index_description,
  CAST(MAX(CASE WHEN k.key_ordinal = 1 THEN k.name END) +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 2 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 3 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 4 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 5 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 6 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 7 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 8 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 9 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 10 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 11 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 12 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 13 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 14 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 15 THEN k.name END), '') +
  ISNULL(', ' + MAX(CASE WHEN k.key_ordinal = 16 THEN k.name END), '') AS nvarchar(2078)) AS index_keys
FROM sys.indexes AS i
  JOIN (SELECT ic.object_id, ic.index_id, ic.key_ordinal,
      c.name + CASE WHEN ic.is_descending_key = 1 THEN '(-)' ELSE '' END AS name
    FROM sys.index_columns AS ic
      JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id) AS k
    ON k.object_id = i.object_id AND k.index_id = i.index_id
WHERE i.object_id = @id
GROUP BY i.name, i.index_id, i.is_unique, i.is_primary_key, i.is_unique_constraint
ORDER BY 1
