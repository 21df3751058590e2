-- `dotnet ef migrations script --idempotent` of two migrations, as EF Core 9 writes it.
IF OBJECT_ID(N'[__EFMigrationsHistory]') IS NULL
BEGIN
    CREATE TABLE [__EFMigrationsHistory] (
        [MigrationId] nvarchar(150) NOT NULL,
        [ProductVersion] nvarchar(32) NOT NULL,
        CONSTRAINT [PK___EFMigrationsHistory] PRIMARY KEY ([MigrationId])
    );
END;
GO

BEGIN TRANSACTION;
IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240101000000_First'
)
BEGIN
    IF SCHEMA_ID(N'shop') IS NULL EXEC(N'CREATE SCHEMA [shop];');
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240101000000_First'
)
BEGIN
    CREATE TABLE [shop].[Owners] (
        [Id] int NOT NULL IDENTITY,
        [Name] nvarchar(450) NOT NULL,
        [Stamp] rowversion NULL,
        CONSTRAINT [PK_Owners] PRIMARY KEY ([Id])
    );
    DECLARE @defaultSchema AS sysname;
    SET @defaultSchema = SCHEMA_NAME();
    DECLARE @description AS sql_variant;
    SET @description = N'Those who own.';
    EXEC sp_addextendedproperty 'MS_Description', @description, 'SCHEMA', N'shop', 'TABLE', N'Owners';
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240101000000_First'
)
BEGIN
    CREATE TABLE [shop].[Products] (
        [Id] uniqueidentifier NOT NULL DEFAULT (NEWID()),
        [Name] nvarchar(max) NOT NULL,
        [Code] nvarchar(20) NULL,
        [Price] decimal(18,2) NOT NULL,
        [Stock] int NOT NULL DEFAULT 0,
        [Added] datetime2 NOT NULL DEFAULT (GETUTCDATE()),
        [Active] bit NOT NULL DEFAULT CAST(1 AS bit),
        [Total] AS [Price] * [Stock],
        [OwnerId] int NULL,
        CONSTRAINT [PK_Products] PRIMARY KEY ([Id]),
        CONSTRAINT [CK_Products_Stock] CHECK ([Stock] >= 0),
        CONSTRAINT [FK_Products_Owners_OwnerId] FOREIGN KEY ([OwnerId]) REFERENCES [shop].[Owners] ([Id]) ON DELETE CASCADE
    );
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240101000000_First'
)
BEGIN
    IF EXISTS (SELECT * FROM [sys].[identity_columns] WHERE [name] IN (N'Id', N'Name') AND [object_id] = OBJECT_ID(N'[shop].[Owners]'))
        SET IDENTITY_INSERT [shop].[Owners] ON;
    EXEC(N'INSERT INTO [shop].[Owners] ([Id], [Name])
    VALUES (1, N''Zo'' + nchar(235)),
    (2, N''b'')');
    IF EXISTS (SELECT * FROM [sys].[identity_columns] WHERE [name] IN (N'Id', N'Name') AND [object_id] = OBJECT_ID(N'[shop].[Owners]'))
        SET IDENTITY_INSERT [shop].[Owners] OFF;
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240101000000_First'
)
BEGIN
    EXEC(N'CREATE UNIQUE INDEX [IX_Products_Code] ON [shop].[Products] ([Code]) WHERE [Code] IS NOT NULL');
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240101000000_First'
)
BEGIN
    CREATE INDEX [IX_Products_OwnerId] ON [shop].[Products] ([OwnerId]);
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240101000000_First'
)
BEGIN
    INSERT INTO [__EFMigrationsHistory] ([MigrationId], [ProductVersion])
    VALUES (N'20240101000000_First', N'9.0.0');
END;

COMMIT;
GO
