CREATE PROCEDURE sp_stored_procedures @sp_name nvarchar(390) = NULL,
  @sp_owner nvarchar(384) = NULL, @sp_qualifier sysname = NULL, @fUsePattern bit = 1
AS
SET NOCOUNT ON
IF @sp_qualifier <> '' AND @sp_qualifier <> DB_NAME()
BEGIN
  RAISERROR(15250, 16, 1)
  RETURN
END
SELECT CAST(DB_NAME() AS sysname) AS PROCEDURE_QUALIFIER,
  CAST(s.name AS sysname) AS PROCEDURE_OWNER,
  CAST(o.name + ';1' AS nvarchar(134)) AS PROCEDURE_NAME, -1 AS NUM_INPUT_PARAMS,
  -1 AS NUM_OUTPUT_PARAMS, -1 AS NUM_RESULT_SETS, CAST(NULL AS varchar(254)) AS REMARKS,
  CAST(2 AS smallint) AS PROCEDURE_TYPE
FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.type = 'P'
  AND (@sp_name IS NULL OR @fUsePattern = 1 AND o.name LIKE @sp_name
    OR @fUsePattern = 0 AND o.name = @sp_name)
  AND (@sp_owner IS NULL OR @fUsePattern = 1 AND s.name LIKE @sp_owner
    OR @fUsePattern = 0 AND s.name = @sp_owner)
ORDER BY 1, 2, 3
