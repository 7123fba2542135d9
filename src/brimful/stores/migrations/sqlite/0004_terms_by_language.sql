-- Terms depend on the language of a text. Every text is indexed again, in the background: until then, its first part is
-- -1. Texts whose terms stay the same keep their documents.

UPDATE documents SET part = -1 WHERE part = 0;
