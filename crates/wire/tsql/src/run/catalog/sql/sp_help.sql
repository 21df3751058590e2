CREATE PROCEDURE sp_help @objname nvarchar(776) = NULL
AS
SET NOCOUNT ON
IF @objname IS NULL
BEGIN
  SELECT CAST(o.name AS sysname) AS Name, CAST('dbo' AS sysname) AS Owner,
    CAST(LOWER(REPLACE(o.type_desc, '_', ' ')) AS nvarchar(31)) AS Object_type
  FROM sys.all_objects AS o ORDER BY o.schema_id, 3 DESC, 1
  RETURN 0
END
DECLARE @id int = OBJECT_ID(@objname)
IF @id IS NULL
BEGIN
  DECLARE @database sysname = DB_NAME()
  RAISERROR('The object ''%s'' does not exist in database ''%s'' or is invalid for this operation.',
    16, 1, @objname, @database)
  RETURN 1
END
SELECT CAST(name AS sysname) AS Name, CAST('dbo' AS sysname) AS Owner,
  CAST(LOWER(REPLACE(type_desc, '_', ' ')) AS nvarchar(31)) AS Type,
  create_date AS Created_datetime
FROM sys.all_objects WHERE object_id = @id
IF EXISTS (SELECT * FROM sys.all_columns WHERE object_id = @id)
BEGIN
  SELECT CAST(name AS sysname) AS Column_name, CAST(TYPE_NAME(user_type_id) AS nvarchar(128)) AS Type,
    CAST(CASE WHEN is_computed = 1 THEN 'yes' ELSE 'no' END AS varchar(35)) AS Computed,
    CAST(max_length AS int) AS Length,
    CAST(CASE WHEN precision > 0 THEN CAST(precision AS char(5)) ELSE '     ' END AS char(5)) AS Prec,
    CAST(CASE WHEN precision > 0 THEN CAST(scale AS char(5)) ELSE '     ' END AS char(5)) AS Scale,
    CAST(CASE WHEN is_nullable = 1 THEN 'yes' ELSE 'no' END AS varchar(35)) AS Nullable,
    CAST(CASE WHEN collation_name IS NULL THEN '(n/a)' WHEN is_ansi_padded = 1 THEN 'no'
      ELSE 'yes' END AS varchar(35)) AS TrimTrailingBlanks,
    CAST(CASE WHEN collation_name IS NULL THEN '(n/a)' WHEN is_nullable = 1 THEN 'yes'
      ELSE 'no' END AS varchar(35)) AS FixedLenNullInSource,
    CAST(collation_name AS sysname) AS Collation
  FROM sys.all_columns WHERE object_id = @id ORDER BY column_id
  IF EXISTS (SELECT * FROM sys.identity_columns WHERE object_id = @id)
    SELECT CAST(name AS nvarchar(128)) AS [Identity], CAST(seed_value AS numeric(38, 0)) AS Seed,
      CAST(increment_value AS numeric(38, 0)) AS Increment, CAST(0 AS int) AS [Not For Replication]
    FROM sys.identity_columns WHERE object_id = @id
  ELSE
    SELECT CAST('No identity column defined.' AS nvarchar(128)) AS [Identity],
      CAST(NULL AS numeric(38, 0)) AS Seed, CAST(NULL AS numeric(38, 0)) AS Increment,
      CAST(NULL AS int) AS [Not For Replication]
  SELECT CAST('No rowguidcol column defined.' AS nvarchar(128)) AS RowGuidCol
END
IF EXISTS (SELECT * FROM sys.parameters WHERE object_id = @id)
  SELECT CAST(name AS sysname) AS Parameter_name,
    CAST(TYPE_NAME(user_type_id) AS nvarchar(128)) AS Type, max_length AS Length,
    CAST(precision AS int) AS Prec, CAST(scale AS int) AS Scale, parameter_id AS Param_order,
    CAST(NULL AS sysname) AS Collation
  FROM sys.parameters WHERE object_id = @id ORDER BY parameter_id
IF EXISTS (SELECT * FROM sys.tables WHERE object_id = @id)
BEGIN
  SELECT CAST('PRIMARY' AS nvarchar(128)) AS Data_located_on_filegroup
  EXEC sp_helpindex @objname
  SELECT CAST(CASE o.type WHEN 'PK' THEN 'PRIMARY KEY' WHEN 'UQ' THEN 'UNIQUE'
      WHEN 'F' THEN 'FOREIGN KEY' WHEN 'C' THEN 'CHECK' ELSE 'DEFAULT' END AS nvarchar(146))
      AS constraint_type,
    CAST(o.name AS nvarchar(128)) AS constraint_name,
    CAST(ISNULL(REPLACE(f.delete_referential_action_desc, '_', ' '), '(n/a)') AS nvarchar(11))
      AS delete_action,
    CAST(ISNULL(REPLACE(f.update_referential_action_desc, '_', ' '), '(n/a)') AS nvarchar(11))
      AS update_action,
    CAST(CASE WHEN o.type NOT IN ('F', 'C') THEN '(n/a)'
      WHEN ISNULL(f.is_disabled, c.is_disabled) = 1 THEN 'Disabled' ELSE 'Enabled' END
      AS varchar(8)) AS status_enabled,
    CAST(CASE WHEN o.type IN ('F', 'C') THEN 'Is_For_Replication' ELSE '(n/a)' END AS varchar(19))
      AS status_for_replication,
    CAST(COALESCE(c.definition, d.definition,
      (SELECT STRING_AGG(n.name, ', ') FROM sys.key_constraints AS k
        JOIN sys.index_columns AS i ON i.object_id = k.parent_object_id
          AND i.index_id = k.unique_index_id
        JOIN sys.columns AS n ON n.object_id = i.object_id AND n.column_id = i.column_id
        WHERE k.object_id = o.object_id),
      (SELECT STRING_AGG(n.name, ', ') FROM sys.foreign_key_columns AS i
        JOIN sys.columns AS n ON n.object_id = i.parent_object_id
          AND n.column_id = i.parent_column_id
        WHERE i.constraint_object_id = o.object_id)) AS nvarchar(2126)) AS constraint_keys
  FROM sys.objects AS o
    LEFT JOIN sys.foreign_keys AS f ON f.object_id = o.object_id
    LEFT JOIN sys.check_constraints AS c ON c.object_id = o.object_id
    LEFT JOIN sys.default_constraints AS d ON d.object_id = o.object_id
  WHERE o.parent_object_id = @id AND o.type IN ('PK', 'UQ', 'F', 'C', 'D')
  ORDER BY 1, 2
END
