CREATE PROCEDURE sp_datatype_info @data_type int = 0, @ODBCVer tinyint = 2
AS
SET NOCOUNT ON
SELECT CAST(t.type_name AS sysname) AS TYPE_NAME,
  CASE WHEN @ODBCVer = 3 THEN t.data_type ELSE t.data_type2 END AS DATA_TYPE,
  t.precision AS [PRECISION], t.literal_prefix AS LITERAL_PREFIX,
  t.literal_suffix AS LITERAL_SUFFIX, t.create_params AS CREATE_PARAMS,
  CAST(1 AS smallint) AS NULLABLE, CAST(0 AS smallint) AS CASE_SENSITIVE,
  t.searchable AS SEARCHABLE, t.unsigned_attribute AS UNSIGNED_ATTRIBUTE, t.money AS MONEY,
  CASE WHEN t.unsigned_attribute IS NOT NULL THEN CAST(0 AS smallint) END AS AUTO_INCREMENT,
  CAST(t.type_name AS sysname) AS LOCAL_TYPE_NAME, t.minimum_scale AS MINIMUM_SCALE,
  t.maximum_scale AS MAXIMUM_SCALE, t.sql_data_type AS SQL_DATA_TYPE,
  t.sql_datetime_sub AS SQL_DATETIME_SUB, t.num_prec_radix AS NUM_PREC_RADIX,
  CAST(NULL AS smallint) AS INTERVAL_PRECISION, t.usertype AS USERTYPE
FROM sys.spt_datatype_info AS t
WHERE @data_type = 0 OR @ODBCVer = 3 AND t.data_type = @data_type
  OR @ODBCVer < 3 AND t.data_type2 = @data_type
ORDER BY 2, 1
