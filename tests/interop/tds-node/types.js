// Every scalar type: its declaration, a literal of T-SQL, the driver's type, and what it reads.
'use strict';

const TEXT = 'Grüße, Ω, 日本, \u{1f600}';

function utc(...parts) {
  const date = new Date(0);
  date.setUTCFullYear(parts[0], parts[1] - 1, parts[2]);
  date.setUTCHours(...parts.slice(3));
  return date;
}

function column(declaration, literal, type, read, more = {}) {
  return { declaration, literal, type, read, ...more };
}

// `sent` is a parameter where it is not what is read; `shown` what CONVERT to varchar gives, where
// the driver's number cannot hold the value.
function types(T) {
  const decimal = '1234567890123456789012345678.0123456789';
  return [
    column('bit', '1', T.Bit, true),
    column('tinyint', '255', T.TinyInt, 255),
    column('smallint', '-32768', T.SmallInt, -32768),
    column('int', '-2147483648', T.Int, -2147483648),
    column('bigint', '9223372036854775807', T.BigInt, '9223372036854775807', {
      sent: 9223372036854775807n,
    }),
    column('real', '0.25', T.Real, 0.25),
    column('float', '1.7976931348623157E308', T.Float, 1.7976931348623157e308),
    column('decimal(38, 10)', decimal, T.VarChar, decimal, { shown: decimal }),
    column('numeric(9, 2)', '-1234567.89', T.Numeric, -1234567.89, {
      options: { precision: 9, scale: 2 },
    }),
    column('money', '12345678.4321', T.Money, 12345678.4321),
    column('smallmoney', '-214748.3648', T.SmallMoney, -214748.3648),
    column('char(8)', "'a€c'", T.VarChar, 'a€c     ', { sent: 'a€c' }),
    column('varchar(50)', "'it''s é'", T.VarChar, "it's é"),
    column('varchar(max)', "'long é'", T.VarChar, 'long é', { options: { length: Infinity } }),
    column('nchar(4)', "N'日本'", T.NChar, '日本  ', { sent: '日本', options: { length: 4 } }),
    column('nvarchar(50)', `N'${TEXT}'`, T.NVarChar, TEXT),
    column('nvarchar(max)', `N'${TEXT}'`, T.NVarChar, TEXT, { options: { length: Infinity } }),
    column('binary(4)', '0xFF00', T.VarBinary, Buffer.from([255, 0, 0, 0])),
    column('varbinary(50)', '0x00FF10', T.VarBinary, Buffer.from([0, 255, 16])),
    column('varbinary(max)', '0xFF0000', T.VarBinary, Buffer.from([255, 0, 0]), {
      options: { length: Infinity },
    }),
    column('date', "'9999-12-31'", T.Date, utc(9999, 12, 31, 0)),
    column('time(7)', "'23:59:59.999'", T.Time, utc(1970, 1, 1, 23, 59, 59, 999)),
    column('datetime', "'1753-01-01T12:34:56.790'", T.DateTime, utc(1753, 1, 1, 12, 34, 56, 790)),
    column('smalldatetime', "'2079-06-06T23:59:00'", T.SmallDateTime, utc(2079, 6, 6, 23, 59)),
    column('datetime2(7)', "'0001-01-01T00:00:00.001'", T.DateTime2, utc(1, 1, 1, 0, 0, 0, 1)),
    column(
      'datetimeoffset(7)',
      "'2024-02-29T13:14:15.123+05:30'",
      T.DateTimeOffset,
      utc(2024, 2, 29, 7, 44, 15, 123),
    ),
    column(
      'uniqueidentifier',
      "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
      T.UniqueIdentifier,
      '6F9619FF-8B86-D011-B42D-00C04FC964FF',
    ),
    column('text', "'text é'", T.Text, 'text é'),
    column('ntext', `N'${TEXT}'`, T.NVarChar, TEXT),
    column('image', '0x00CAFE', T.Image, Buffer.from([0, 0xca, 0xfe])),
    column('xml', `N'${TEXT}'`, T.NVarChar, TEXT),
  ];
}

module.exports = { TEXT, types };
