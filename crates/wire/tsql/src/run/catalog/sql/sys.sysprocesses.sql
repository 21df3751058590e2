SELECT s.session_id AS spid, CAST(ISNULL(h.os_thread_id, 0) AS int) AS kpid,
  CAST(ISNULL(r.blocking_session_id, 0) AS smallint) AS blocked,
  CAST(ISNULL(r.wait_time, 0) AS bigint) AS waittime,
  CAST(ISNULL(r.last_wait_type, '') AS nchar(32)) AS lastwaittype, s.database_id AS dbid,
  s.cpu_time AS cpu, s.reads + s.writes AS physical_io, s.login_time,
  s.last_request_start_time AS last_batch, CAST(0 AS smallint) AS ecid,
  CAST(s.open_transaction_count AS smallint) AS open_tran, CAST(s.status AS nchar(30)) AS status,
  CAST(s.host_name AS nchar(128)) AS hostname, CAST(s.program_name AS nchar(128)) AS program_name,
  CAST(ISNULL(r.command, 'AWAITING COMMAND') AS nchar(26)) AS cmd,
  CAST(s.login_name AS nchar(128)) AS loginame, CAST(ISNULL(r.request_id, 0) AS int) AS request_id
FROM sys.dm_exec_sessions AS s LEFT JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id
  LEFT JOIN sys.dm_os_tasks AS t ON t.task_address = r.task_address
  LEFT JOIN sys.dm_os_workers AS w ON w.worker_address = t.worker_address
  LEFT JOIN sys.dm_os_threads AS h ON h.thread_address = w.thread_address
