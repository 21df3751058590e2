CREATE PROCEDURE sp_helpfile @filename sysname = NULL
AS
SET NOCOUNT ON
IF @filename IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sys.database_files WHERE name = @filename)
BEGIN
  RAISERROR(15325, 16, 1, 'file', @filename)
  RETURN 1
END
SELECT CAST(name AS sysname) AS name, CAST(file_id AS smallint) AS fileid,
  CAST(physical_name AS nchar(260)) AS filename,
  CAST(CASE WHEN type = 0 THEN 'PRIMARY' END AS sysname) AS filegroup,
  CAST(LTRIM(STR(CAST(size AS bigint) * 8, 15, 0)) + ' KB' AS nvarchar(18)) AS size,
  CAST('Unlimited' AS nvarchar(18)) AS maxsize, CAST(NULL AS nvarchar(18)) AS growth,
  CAST(CASE WHEN type = 0 THEN 'data only' ELSE 'log only' END AS varchar(9)) AS usage
FROM sys.database_files WHERE @filename IS NULL OR name = @filename ORDER BY file_id
