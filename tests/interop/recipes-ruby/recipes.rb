# Uses a database through the gem sqlite3, as docs/recipes.md describes; see tests/interop/README.md.
#
# `recipes.rb TOOL write|read DATABASE`: makes the table and writes the rows, or prints their
# number and sum. It reads by a password of its own, which its environment has not any more.

# recipe
require 'sqlite3'

EXTENSION = ENV.fetch('TDEKIT_EXTENSION', '/usr/lib/tdekit/libtdekit_sqlite.so')

def connect(path, password: nil)
  holder = SQLite3::Database.new(':memory:')
  holder.enable_load_extension(true)
  holder.load_extension(EXTENSION)
  holder.execute('SELECT tdekit_unlock(?, ?, ?)', [path, 'password', password]) if password
  SQLite3::Database.new(path)
ensure
  holder&.close
end
# end

tool, work, path = ARGV
abort "no #{tool} #{work}" unless tool == 'sqlite3' && %w[write read].include?(work)
begin
  if work == 'write'
    db = connect(path)
    db.transaction do
      db.execute('CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL)')
      (1..100).each do |id|
        body = "note #{id} #{ENV.fetch('INTEROP_MARKER')}"
        db.execute('INSERT INTO note VALUES(?, ?)', [id, body])
      end
    end
  else
    db = connect(path, password: ENV.delete('TDEKIT_PASSWORD'))
    puts db.get_first_row('SELECT count(*), sum(id) FROM note').join(' ')
  end
  db.close
rescue SQLite3::Exception => e
  abort e.message
end
