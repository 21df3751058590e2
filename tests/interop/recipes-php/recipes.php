<?php
// Uses a database through one class, as docs/recipes.md describes; see tests/interop/README.md.
//
// `recipes.php TOOL write|read DATABASE`: makes the table and writes the rows, or prints their
// number and sum. It reads by a password of its own, which its environment has not any more.

// recipe
function connect(string $path, ?string $password = null): SQLite3
{
    $holder = new SQLite3(':memory:');
    $holder->enableExceptions(true);
    $holder->loadExtension('libtdekit_sqlite.so');
    if ($password !== null) {
        $unlock = $holder->prepare("SELECT tdekit_unlock(:path, 'password', :password)");
        $unlock->bindValue(':path', $path);
        $unlock->bindValue(':password', $password);
        $unlock->execute();
    }
    return new SQLite3($path);
}
// end

// recipe
function connectPdo(string $path): PDO
{
    (new SQLite3(':memory:'))->loadExtension('libtdekit_sqlite.so');
    return new PDO("sqlite:$path");
}
// end

const MAKE = 'CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL)';
const INSERT = 'INSERT INTO note VALUES(:id, :body)';
const READ = 'SELECT count(*), sum(id) FROM note';

function bodies(): array
{
    $marker = getenv('INTEROP_MARKER');
    return array_map(fn ($id) => "note $id $marker", range(1, 100));
}

function write(object $db): void
{
    $db->exec(MAKE);
    foreach (bodies() as $at => $body) {
        $insert = $db->prepare(INSERT);
        $insert->bindValue(':id', $at + 1);
        $insert->bindValue(':body', $body);
        $insert->execute();
    }
}

[, $tool, $work, $path] = $argv;
try {
    if ($tool === 'sqlite3' && $work === 'read') {
        $password = getenv('TDEKIT_PASSWORD');
        putenv('TDEKIT_PASSWORD');
        $found = connect($path, $password)->querySingle(READ, true);
        echo implode(' ', $found), "\n";
    } elseif ($tool === 'pdo' && $work === 'read') {
        echo implode(' ', connectPdo($path)->query(READ)->fetch(PDO::FETCH_NUM)), "\n";
    } elseif ($work === 'write') {
        $open = ['sqlite3' => 'connect', 'pdo' => 'connectPdo'][$tool];
        $db = $open($path);
        $db->exec('BEGIN');
        write($db);
        $db->exec('COMMIT');
    } else {
        throw new InvalidArgumentException("no $tool $work");
    }
} catch (Throwable $error) {
    fwrite(STDERR, $error->getMessage() . "\n");
    exit(1);
}
