CREATE PROCEDURE sp_tablecollations_100 @object nvarchar(4000) AS
SET NOCOUNT ON
SELECT c.column_id AS colid, c.name AS name,
  CASE WHEN c.collation_name IS NOT NULL THEN CAST(0x0904D00034 AS binary(5)) END
    AS tds_collation,
  c.collation_name AS collation
FROM sys.columns AS c WHERE c.object_id = OBJECT_ID(@object)
ORDER BY c.column_id
