"""The files of a tree at one moment, as the file system has them: git is not asked."""
