CREATE PROCEDURE sp_helpdb @dbname sysname = NULL
AS
SET NOCOUNT ON
IF @dbname IS NOT NULL AND DB_ID(@dbname) IS NULL
BEGIN
  RAISERROR('The database ''%s'' does not exist. Supply a valid database name. To see available databases, use sys.databases.',
    16, 1, @dbname)
  RETURN 1
END
SELECT d.name,
  CAST((SELECT STR(SUM(CAST(f.size AS bigint)) * 8192.0 / 1048576, 10, 2) + ' MB'
    FROM sys.master_files AS f WHERE f.database_id = d.database_id) AS nvarchar(13)) AS db_size,
  CAST('sa' AS sysname) AS owner, CAST(d.database_id AS smallint) AS dbid,
  CAST(CONVERT(varchar(11), d.create_date, 100) AS nvarchar(11)) AS created,
  CAST('Status=' + d.state_desc + ', Updateability=READ_WRITE, UserAccess=' + d.user_access_desc +
    ', Recovery=' + d.recovery_model_desc + ', Collation=' + d.collation_name
    AS nvarchar(600)) AS status,
  d.compatibility_level
FROM sys.databases AS d WHERE @dbname IS NULL OR d.name = @dbname ORDER BY d.name
IF @dbname IS NOT NULL
  SELECT CAST(name AS nchar(128)) AS name, CAST(file_id AS smallint) AS fileid,
    CAST(physical_name AS nchar(260)) AS filename,
    CAST(CASE WHEN type = 0 THEN 'PRIMARY' END AS nvarchar(128)) AS filegroup,
    CAST(LTRIM(STR(CAST(size AS bigint) * 8, 15, 0)) + ' KB' AS nvarchar(18)) AS size,
    CAST('Unlimited' AS nvarchar(18)) AS maxsize, CAST(NULL AS nvarchar(18)) AS growth,
    CAST(CASE WHEN type = 0 THEN 'data only' ELSE 'log only' END AS varchar(9)) AS usage
  FROM sys.master_files WHERE database_id = DB_ID(@dbname) ORDER BY file_id
