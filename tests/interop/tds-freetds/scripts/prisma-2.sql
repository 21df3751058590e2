/*
  Warnings:

  - You are about to drop the column `published` on the `Post` table. All the data in the column will be lost.
  - The primary key for the `Post` table will be changed.

*/
BEGIN TRY

BEGIN TRAN;

-- DropForeignKey
ALTER TABLE [dbo].[Post] DROP CONSTRAINT [Post_authorId_fkey];

-- DropIndex
DROP INDEX [Post_authorId_views_idx] ON [dbo].[Post];

-- AlterTable
ALTER TABLE [dbo].[Post] DROP CONSTRAINT [Post_published_df],
[Post_views_df];
ALTER TABLE [dbo].[Post] ALTER COLUMN [views] BIGINT NOT NULL;
ALTER TABLE [dbo].[Post] ALTER COLUMN [title] NVARCHAR(1000) NULL;
ALTER TABLE [dbo].[Post] ALTER COLUMN [authorId] INT NULL;
ALTER TABLE [dbo].[Post] DROP COLUMN [published];
ALTER TABLE [dbo].[Post] ADD CONSTRAINT [Post_views_df] DEFAULT 1 FOR [views];
ALTER TABLE [dbo].[Post] ADD [status] NVARCHAR(1000) NOT NULL CONSTRAINT [Post_status_df] DEFAULT 'DRAFT';

-- CreateTable
CREATE TABLE [dbo].[_PostToTag] (
    [A] NVARCHAR(30) NOT NULL,
    [B] INT NOT NULL,
    CONSTRAINT [_PostToTag_AB_unique] UNIQUE NONCLUSTERED ([A],[B])
);

-- CreateTable
CREATE TABLE [dbo].[Tag] (
    [id] INT NOT NULL IDENTITY(1,1),
    [name] NVARCHAR(1000) NOT NULL,
    CONSTRAINT [Tag_pkey] PRIMARY KEY CLUSTERED ([id])
);

-- CreateIndex
CREATE NONCLUSTERED INDEX [_PostToTag_B_index] ON [dbo].[_PostToTag]([B]);

-- AddForeignKey
ALTER TABLE [dbo].[Post] ADD CONSTRAINT [Post_authorId_fkey] FOREIGN KEY ([authorId]) REFERENCES [dbo].[User]([id]) ON DELETE SET NULL ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE [dbo].[_PostToTag] ADD CONSTRAINT [_PostToTag_A_fkey] FOREIGN KEY ([A]) REFERENCES [dbo].[Post]([id]) ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE [dbo].[_PostToTag] ADD CONSTRAINT [_PostToTag_B_fkey] FOREIGN KEY ([B]) REFERENCES [dbo].[Tag]([id]) ON DELETE CASCADE ON UPDATE CASCADE;

-- RedefineTables
BEGIN TRANSACTION;
DECLARE @SQL NVARCHAR(MAX) = N''
SELECT @SQL += N'ALTER TABLE '
    + QUOTENAME(OBJECT_SCHEMA_NAME(PARENT_OBJECT_ID))
    + '.'
    + QUOTENAME(OBJECT_NAME(PARENT_OBJECT_ID))
    + ' DROP CONSTRAINT '
    + OBJECT_NAME(OBJECT_ID) + ';'
FROM SYS.OBJECTS
WHERE TYPE_DESC LIKE '%CONSTRAINT'
    AND OBJECT_NAME(PARENT_OBJECT_ID) = 'User'
    AND SCHEMA_NAME(SCHEMA_ID) = 'dbo'
    AND TYPE_DESC <> 'FOREIGN_KEY_CONSTRAINT'
    AND TYPE_DESC <> 'PRIMARY_KEY_CONSTRAINT'
EXEC sp_executesql @SQL
;
CREATE TABLE [dbo].[_prisma_new_Setting] (
    [id] INT NOT NULL,
    [userId] INT NOT NULL,
    CONSTRAINT [Setting_pkey] PRIMARY KEY CLUSTERED ([id]),
    CONSTRAINT [Setting_userId_key] UNIQUE NONCLUSTERED ([userId])
);
EXEC SP_RENAME N'dbo._prisma_new_Setting', N'Setting';
COMMIT;

COMMIT TRAN;

END TRY
BEGIN CATCH

IF @@TRANCOUNT > 0
BEGIN
    ROLLBACK TRAN;
END;
THROW

END CATCH
