-- The second migration of the same script.
BEGIN TRANSACTION;
IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    ALTER TABLE [shop].[Products] DROP CONSTRAINT [FK_Products_Owners_OwnerId];
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    ALTER TABLE [shop].[Products] DROP CONSTRAINT [PK_Products];
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    EXEC sp_rename N'[shop].[Products]', N'Items', 'OBJECT';
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    EXEC sp_rename N'[shop].[Items].[Name]', N'Title', 'COLUMN';
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    EXEC sp_rename N'[shop].[Items].[IX_Products_OwnerId]', N'IX_Items_OwnerId', 'INDEX';
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    DROP INDEX [IX_Products_Code] ON [shop].[Items];
    DECLARE @var0 sysname;
    SELECT @var0 = [d].[name]
    FROM [sys].[default_constraints] [d]
    INNER JOIN [sys].[columns] [c] ON [d].[parent_column_id] = [c].[column_id] AND [d].[parent_object_id] = [c].[object_id]
    WHERE ([d].[parent_object_id] = OBJECT_ID(N'[shop].[Items]') AND [c].[name] = N'Code');
    IF @var0 IS NOT NULL EXEC(N'ALTER TABLE [shop].[Items] DROP CONSTRAINT [' + @var0 + '];');
    UPDATE [shop].[Items] SET [Code] = N'' WHERE [Code] IS NULL;
    ALTER TABLE [shop].[Items] ALTER COLUMN [Code] nvarchar(40) NOT NULL;
    ALTER TABLE [shop].[Items] ADD DEFAULT N'' FOR [Code];
    CREATE INDEX [IX_Items_Code] ON [shop].[Items] ([Code]);
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    DECLARE @var1 sysname;
    SELECT @var1 = [d].[name]
    FROM [sys].[default_constraints] [d]
    INNER JOIN [sys].[columns] [c] ON [d].[parent_column_id] = [c].[column_id] AND [d].[parent_object_id] = [c].[object_id]
    WHERE ([d].[parent_object_id] = OBJECT_ID(N'[shop].[Items]') AND [c].[name] = N'Active');
    IF @var1 IS NOT NULL EXEC(N'ALTER TABLE [shop].[Items] DROP CONSTRAINT [' + @var1 + '];');
    ALTER TABLE [shop].[Items] DROP COLUMN [Active];
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    ALTER TABLE [shop].[Items] ADD [Note] nvarchar(max) NOT NULL DEFAULT N'';
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    ALTER TABLE [shop].[Items] ADD CONSTRAINT [PK_Items] PRIMARY KEY ([Id]);
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    CREATE TABLE [shop].[Labels] (
        [Id] bigint NOT NULL IDENTITY,
        [Text] nvarchar(100) NOT NULL,
        CONSTRAINT [PK_Labels] PRIMARY KEY ([Id]),
        CONSTRAINT [AK_Labels_Text] UNIQUE ([Text])
    );
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    CREATE TABLE [shop].[ItemLabel] (
        [LabelsId] bigint NOT NULL,
        [ItemsId] uniqueidentifier NOT NULL,
        CONSTRAINT [PK_ItemLabel] PRIMARY KEY ([LabelsId], [ItemsId]),
        CONSTRAINT [FK_ItemLabel_Labels_LabelsId] FOREIGN KEY ([LabelsId]) REFERENCES [shop].[Labels] ([Id]) ON DELETE CASCADE,
        CONSTRAINT [FK_ItemLabel_Items_ItemsId] FOREIGN KEY ([ItemsId]) REFERENCES [shop].[Items] ([Id]) ON DELETE CASCADE
    );
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    CREATE SEQUENCE [shop].[Numbers] START WITH 1 INCREMENT BY 10 NO CYCLE;
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    EXEC(N'UPDATE [shop].[Owners] SET [Name] = N''c''
    WHERE [Id] = 2;
    SELECT @@ROWCOUNT');
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    ALTER TABLE [shop].[Items] ADD CONSTRAINT [FK_Items_Owners_OwnerId] FOREIGN KEY ([OwnerId]) REFERENCES [shop].[Owners] ([Id]) ON DELETE SET NULL;
END;

IF NOT EXISTS (
    SELECT * FROM [__EFMigrationsHistory]
    WHERE [MigrationId] = N'20240201000000_Second'
)
BEGIN
    INSERT INTO [__EFMigrationsHistory] ([MigrationId], [ProductVersion])
    VALUES (N'20240201000000_Second', N'9.0.0');
END;

COMMIT;
GO
