
select @@spid

DBCC SQLPERF('sys.dm_os_wait_stats', CLEAR);

select @@VERSION

select encrypt_option from sys.dm_exec_connections where session_id = @@SPID 

DECLARE @starttime datetime, @endtime datetime
DECLARE @cnt int = 0, @ts_start int ;
DECLARE @context_switches_before int, @context_switches_after int ;

SET @starttime =getdate() ;
select @context_switches_before = sum(context_switches_count) 
  from sys.dm_os_schedulers ;

--load  
BEGIN
    WHILE @cnt < 100000000
	BEGIN
	   SET @cnt = @cnt + 1;
	END;
END

select @context_switches_after = sum(context_switches_count) 
  from sys.dm_os_schedulers ;

select ( @context_switches_after  -  @context_switches_before ) context_switches ;

SET @endtime = GETDATE() ;
SELECT Datediff(s, @starttime, @endtime) elapsed_seconds

select * from sys.dm_os_wait_stats where wait_type = 'PREEMPTIVE_OS_ENCRYPTMESSAGE' ;
