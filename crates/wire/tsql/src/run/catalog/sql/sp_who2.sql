CREATE PROCEDURE sp_who2 @loginame sysname = NULL
AS
SET NOCOUNT ON
SELECT CAST(s.session_id AS char(5)) AS SPID, CAST(s.status AS nvarchar(30)) AS Status,
  s.login_name AS Login, CAST(ISNULL(NULLIF(s.host_name, ''), '  .') AS nvarchar(128)) AS HostName,
  CAST(CASE WHEN ISNULL(r.blocking_session_id, 0) = 0 THEN '  .'
    ELSE CAST(r.blocking_session_id AS char(5)) END AS char(5)) AS BlkBy,
  DB_NAME(s.database_id) AS DBName,
  CAST(ISNULL(r.command, 'AWAITING COMMAND') AS nvarchar(32)) AS Command,
  s.cpu_time AS CPUTime, s.reads + s.writes AS DiskIO,
  CAST(CONVERT(varchar(5), s.last_request_start_time, 1) + ' ' +
    CONVERT(varchar(8), s.last_request_start_time, 108) AS varchar(14)) AS LastBatch,
  s.program_name AS ProgramName, CAST(s.session_id AS char(5)) AS SPID,
  CAST(ISNULL(r.request_id, 0) AS char(5)) AS REQUESTID
FROM sys.dm_exec_sessions AS s LEFT JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id
WHERE @loginame IS NULL OR s.login_name = @loginame
  OR LOWER(@loginame) = 'active' AND s.status <> 'sleeping'
  OR CAST(s.session_id AS nvarchar(10)) = @loginame
ORDER BY s.session_id
