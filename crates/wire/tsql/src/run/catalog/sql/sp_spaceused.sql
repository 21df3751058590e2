CREATE PROCEDURE sp_spaceused @objname nvarchar(776) = NULL, @updateusage varchar(5) = 'false',
  @mode varchar(11) = 'ALL', @oneresultset bit = 0
AS
SET NOCOUNT ON
IF @objname IS NOT NULL
BEGIN
  DECLARE @id int = OBJECT_ID(@objname, 'U')
  IF @id IS NULL
  BEGIN
    RAISERROR('The object ''%s'' does not exist in database ''%s'' or is invalid for this operation.',
      16, 1, @objname, '')
    RETURN 1
  END
  SELECT CAST(OBJECT_NAME(@id) AS nvarchar(128)) AS name, CAST(rows AS char(20)) AS rows,
    CAST(LTRIM(STR((data + indexes) / 1024, 15, 0)) + ' KB' AS varchar(18)) AS reserved,
    CAST(LTRIM(STR(data / 1024, 15, 0)) + ' KB' AS varchar(18)) AS data,
    CAST(LTRIM(STR(indexes / 1024, 15, 0)) + ' KB' AS varchar(18)) AS index_size,
    CAST('0 KB' AS varchar(18)) AS unused
  FROM sys.[~space] WHERE object_id = @id
  RETURN 0
END
DECLARE @size bigint = (SELECT SUM(CAST(size AS bigint)) FROM sys.database_files)
DECLARE @data bigint, @indexes bigint, @free bigint
SELECT @data = data, @indexes = indexes, @free = unused FROM sys.[~space] WHERE object_id = 0
IF @oneresultset = 1
BEGIN
  SELECT CAST(DB_NAME() AS nvarchar(128)) AS database_name,
    CAST(LTRIM(STR(@size * 8192.0 / 1048576, 15, 2)) + ' MB' AS varchar(18)) AS database_size,
    CAST(LTRIM(STR(@free / 1048576.0, 15, 2)) + ' MB' AS varchar(18)) AS [unallocated space],
    CAST(LTRIM(STR((@data + @indexes) / 1024, 15, 0)) + ' KB' AS varchar(18)) AS reserved,
    CAST(LTRIM(STR(@data / 1024, 15, 0)) + ' KB' AS varchar(18)) AS data,
    CAST(LTRIM(STR(@indexes / 1024, 15, 0)) + ' KB' AS varchar(18)) AS index_size,
    CAST('0 KB' AS varchar(18)) AS unused
  RETURN 0
END
SELECT CAST(DB_NAME() AS nvarchar(128)) AS database_name,
  CAST(LTRIM(STR(@size * 8192.0 / 1048576, 15, 2)) + ' MB' AS varchar(18)) AS database_size,
  CAST(LTRIM(STR(@free / 1048576.0, 15, 2)) + ' MB' AS varchar(18)) AS [unallocated space]
SELECT CAST(LTRIM(STR((@data + @indexes) / 1024, 15, 0)) + ' KB' AS varchar(18)) AS reserved,
  CAST(LTRIM(STR(@data / 1024, 15, 0)) + ' KB' AS varchar(18)) AS data,
  CAST(LTRIM(STR(@indexes / 1024, 15, 0)) + ' KB' AS varchar(18)) AS index_size,
  CAST('0 KB' AS varchar(18)) AS unused
