import os

# recipe
import tdekit

tdekit.load()

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["NOTES_DATABASE"],
    }
}
# end

INSTALLED_APPS = ["notes"]
USE_TZ = True
SECRET_KEY = "only for the interop tests"
