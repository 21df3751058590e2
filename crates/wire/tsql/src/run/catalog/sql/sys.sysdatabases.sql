SELECT name, CAST(database_id AS smallint) AS dbid, owner_sid AS sid, CAST(0 AS smallint) AS mode,
  create_date AS crdate, compatibility_level AS cmptlevel
FROM sys.databases
